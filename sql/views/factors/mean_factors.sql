-- One row: a model and metric (accuracy, loss) of a task, with its mean factor against LA and its 95 % interval.
-- needs: mean_factors_against
-- How many times fewer tokens than LA to the same accuracy or loss, on the geometric mean over all that both curves
-- cover. `seeds` is the smaller number of seeds of the two models; with one seed there is no interval.
create or replace view mean_factors as
select study_id, depth, variant, task, metric, factor, low, high, seeds
from mean_factors_against('LA');

comment on view mean_factors is
    'How many times fewer tokens than LA on average over the curves; null after a change until `dreamer intervals`';

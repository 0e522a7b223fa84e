-- One row: a part of a model's curve, accuracy or loss, on which its best so far rises from one checkpoint to the next.
-- needs: score_curves
-- A curve made monotone by its best so far, linear in log tokens between checkpoints: the tokens that the model needs to
-- a score are where these segments have the score. For a loss the score is minus the loss.
create or replace view rising_segments as
select
    study_id, depth, variant, task,
    measure as metric,
    best_before as score_from,
    score as score_to,
    ln(tokens_before) as log_tokens_from,
    ln(tokens) as log_tokens_to
from score_curves(null)
where measure in ('accuracy', 'loss') and score > best_before;

comment on view rising_segments is 'The rising parts of every accuracy and loss curve made monotone by its best so far';

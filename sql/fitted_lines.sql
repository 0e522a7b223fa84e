-- The fitted curves as lines to draw: 60 points of each, evenly spaced in log tokens from the first checkpoint to the
-- last. Nothing is drawn beyond them.
create or replace view fitted_lines as
with places as (
    select *, first_tokens * pow(last_tokens / first_tokens, place / 59) as tokens
    from fitted_curves
    cross join range(60) as places(place)
    where status = 'fitted'
)

select study_id, depth, variant, task, tokens, curve_value(tokens, floor, ceiling, scale, exponent) as accuracy
from places
order by study_id, depth, variant_order(variant), variant, task, tokens;

comment on view fitted_lines is 'The fitted curves as lines to draw, from the first checkpoint to the last';

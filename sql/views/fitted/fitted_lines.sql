-- One row: a point of a fitted power law to draw.
-- needs: curve_value, variant_order
-- Each curve has 60 points, evenly spaced in log tokens from its first to its last checkpoint.
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

-- The tokens at which a fitted power law (see fitted_curves) has an accuracy.
-- Infinite from the ceiling on, 0 up to the floor.
create or replace macro curve_tokens(accuracy, floor, ceiling, scale, exponent) as
    case
        when accuracy >= ceiling then 'infinity'::double
        when accuracy <= floor then 0.0
        else scale * pow((accuracy - floor) / (ceiling - accuracy), 1 / exponent)
    end;

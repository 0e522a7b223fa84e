-- The tokens at which a fitted curve (see fitted_curves) has an accuracy: infinite from its ceiling on, 0 up to its floor.
create or replace macro curve_tokens(accuracy, floor, ceiling, scale, exponent) as
    case
        when accuracy >= ceiling then 'infinity'::double
        when accuracy <= floor then 0.0
        else scale * pow((accuracy - floor) / (ceiling - accuracy), 1 / exponent)
    end;

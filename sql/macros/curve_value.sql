-- The accuracy of a fitted power law (see fitted_curves) at a number of tokens.
create or replace macro curve_value(tokens, floor, ceiling, scale, exponent) as
    ceiling - (ceiling - floor) / (1 + pow(tokens / scale, exponent));

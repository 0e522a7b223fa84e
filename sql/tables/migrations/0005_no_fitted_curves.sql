-- Drops the fitted power laws: the mean factor uses every checkpoint without a form of the curve.
drop view if exists data_efficiency_fitted;
drop view if exists fitted_lines;
drop macro table if exists efficiency_fitted;
drop macro table if exists fitted_tokens_to;
drop macro if exists curve_value;
drop macro if exists curve_tokens;
drop table if exists fitted_curves;
drop table if exists fitted_replicates;

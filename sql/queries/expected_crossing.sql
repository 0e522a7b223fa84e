select
    own.tokens_interpolated as tokens, own.tokens_trained, own.bound,
    other.tokens_interpolated as baseline_tokens, other.bound as baseline_bound
from tokens_to($task, $goal) as own
join internal.variants using (study_id, variant)
join tokens_to($task, $goal) as other
    on other.study_id = own.study_id and other.depth is not distinct from own.depth
    and other.variant = coalesce($against, variants.baseline)
where own.study_id = $study and own.variant = $variant
order by own.depth

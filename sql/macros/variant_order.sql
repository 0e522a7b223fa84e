-- The place of a variant in the paper's tables; users' own variants come after, by name.
create or replace macro variant_order(variant) as
    case variant when 'LA' then 1 when 'DR' then 2 when 'DR+DA' then 3 else 4 end;

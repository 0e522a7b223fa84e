-- The order in which the paper's tables list the models; the user's own come after, by name.
create or replace macro variant_order(variant) as
    case variant when 'LA' then 1 when 'DR' then 2 when 'DR+DA' then 3 else 4 end;

-- Whether a value is at least a goal, up to rounding.
-- Means over tasks or seeds that are equal on paper differ in their last bits by the order of summation, and a tie must
-- count as reached. So a few parts in 10^15 may be missing: far less than one item.
create or replace macro internal.reaches(value, goal) as value >= goal - 4e-15 * abs(goal);

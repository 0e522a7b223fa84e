-- Whether a value is at least a goal. Means over tasks or seeds that are equal on paper differ in their last bits by
-- the order of summation, and a tie must count as reached: so up to a few parts in 10^15, far less than one item.
create or replace macro reaches(value, goal) as value >= goal - 4e-15 * abs(goal);

-- The Gini coefficient of the experts of a group, from their ranks by selections, the least selected first: 0 is even use.
create or replace macro internal.gini(rank, selections, experts) as
2 * sum(rank * selections) / (experts * sum(selections)) - (experts + 1) / experts;

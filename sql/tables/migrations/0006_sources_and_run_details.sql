-- Version 6 has the tables sources and run_details, which sql/tables makes. Files of version 5 have no rows for them.
select 1;

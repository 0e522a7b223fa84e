create table if not exists origins ( -- One row: a variant of a study that another study has trained.
    study_id varchar,
    variant varchar,
    origin varchar, -- id of the study that has trained the variant
    code_version varchar, -- of the program that trained the variant
    created_at timestamp, -- when the results of that study were made, UTC
    seeds bigint, -- that were trained
    devices varchar, -- that trained them; their seconds are not compared with other devices' and are not taken
    primary key (study_id, variant)
);

-- What must be equal where curves of one study join another (`from` of a variant).
create table if not exists internal.study_inputs ( -- One row: a setting or a digest that decides how a study's curves compare.
    study_id varchar,
    what varchar, -- a key of the study file, or what the digest is of
    value varchar,
    primary key (study_id, what)
);

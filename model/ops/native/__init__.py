"""Operations in C, for one CPU core."""

"""All of them."""

from tests.mutants import decoding, models, outside, training

MUTANTS = (*decoding.MUTANTS, *models.MUTANTS, *outside.MUTANTS, *training.MUTANTS)

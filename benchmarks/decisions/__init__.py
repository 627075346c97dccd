"""Losses of counts, standard deviations, intervals and questions for labels, beside the peers."""

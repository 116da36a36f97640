"""Policies for ptxgym's environments. They use the public Gymnasium interface and nothing else of ptxgym."""

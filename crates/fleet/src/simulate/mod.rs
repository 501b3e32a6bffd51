//! The decisions of policies against a model of a fleet, on a virtual clock.

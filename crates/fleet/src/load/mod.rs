//! From observations of resources to the load of a level.

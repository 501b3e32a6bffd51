//! Decisions carried out, one step after the other.

//! Load: a plan goes in, exact numbers come out.

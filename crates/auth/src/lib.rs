//! Who comes in: an ordered chain of providers of authentication.

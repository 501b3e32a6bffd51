//! From loads to decisions: how many resources a level shall have, and why.

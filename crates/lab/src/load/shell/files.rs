//! Open files: each connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::load::LoadError;

/// Files of a process beside its connections: the poll, standard streams, temporary files of libraries.
const OTHERS: u64 = 50;

/// Takes as many open files as this process may have, and checks that they are enough for this number of clients: a
/// connection that fails for want of them would be put down to the broker.
///
/// # Errors
/// When they are too few.
pub(super) fn enough(clients: u64) -> Result<(), LoadError> {
    let limits = getrlimit(Resource::Nofile);
    if limits.current != limits.maximum {
        // A limit that may not be raised stays, and is judged as it is.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits });
    }
    let needed = clients.saturating_add(OTHERS);
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < needed => Err(LoadError::Files { needed, limit }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_files_is_raised_and_too_few_end_a_run_early() {
        let before = getrlimit(Resource::Nofile);
        let less = before.maximum.map_or(100_000, |most| most - 1);
        setrlimit(Resource::Nofile, Rlimit { current: Some(less), ..before }).unwrap();
        enough(1).unwrap();
        assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
        let too_many = enough(1 << 40);
        assert_eq!(too_many.is_err(), before.maximum.is_some());
        assert!(too_many.err().is_none_or(|error| error.to_string().contains("--processes")));
    }
}

//! `tidegate lab work`: one of several processes that produce a load together. `tidegate lab run` starts it; it is not
//! for users.

use std::io::{BufReader, stdin, stdout};

use tidegate_lab::load::work;

use tidegate_terminal::{Exit, report};

pub(crate) fn run() -> Exit {
    match work(BufReader::new(stdin()), stdout()) {
        Ok(()) => Exit::Ok,
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

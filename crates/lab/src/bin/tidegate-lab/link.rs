//! `tidegate lab link`: the process that holds the network of a broker. `tidegate lab run` starts it; it is not for
//! users.

use std::io::{BufReader, stdin, stdout};

use tidegate_lab::network::hold;

use tidegate_terminal::{Exit, report};

pub(crate) fn run() -> Exit {
    match hold(BufReader::new(stdin()), stdout()) {
        Ok(()) => Exit::Ok,
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

mod cloud;
mod faults;
mod seeds;
mod shell;

pub(super) use cloud::settings;

mod cloud;
mod faults;
mod seeds;
mod shell;

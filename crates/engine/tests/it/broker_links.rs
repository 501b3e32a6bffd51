//! An orchestrator in front of brokers that a test has written.

mod addresses;
mod adopted;
mod bounds;
mod clocks;
mod copies;
mod filters;
mod forwarding;
mod hazards;
mod last_copies;
mod lies;
mod life;
mod linked_members;
mod loss;
mod members;
mod order;
mod packet_limits;
mod retained;
mod routing;
mod settled;
mod settling;
mod simulation;
mod spreading;
mod suspects;
mod tenants;
mod versions;
mod wills;

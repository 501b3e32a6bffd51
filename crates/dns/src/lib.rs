//! The entry point of a fleet: a DNS server for one zone of its own, which names for each query the orchestrator that suits the asker.

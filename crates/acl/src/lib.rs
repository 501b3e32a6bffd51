//! Who may do what: rules, compiled, and the explanation of which one decided.

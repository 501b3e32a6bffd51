//! Keys and values on a disk that survive kill -9, power loss and a full disk.

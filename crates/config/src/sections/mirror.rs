//! The copy of the store's files on a bus.

use crate::key::{Key, Section, SectionKeys, section};
use crate::value::{Kind, Problem, Range, Raw, Value};
use tidegate_units::size::{Bytes, MIB, TIB};

section! {
    /// Keeps the files of the store on a bus, too, so that they outlive this machine: see
    /// [the store](store.md#on-the-bus). Needs `store.directory`, which is then a working copy.
    "mirror" => Mirror, MIRROR {
        /// The bus: `embedded://DIRECTORY` for another disk of this machine, `nats://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]]`, or `kafka://` in a build with that feature.
        /// Without one the files are on this machine alone.
        bus: Option<String> = None, in Kind::Text { max_len: 4096 }, credentials = true, flag "--mirror";
        /// Name of the files: the broker's own name on the bus, at most 58 letters, digits, `-` and `_`. The broker that
        /// starts with it owns them from then on, and the former owner stops.
        name: String = String::new(), in Kind::Name { empty: true }, flag "--mirror-name";
        /// The beginning of names on the bus.
        prefix: String = "tidegate".to_owned(), in Kind::Name { empty: false };
        /// Copies of each log on the servers of the bus. It holds for logs that are made from now on.
        replicas: u8 = 0, in Kind::Integer(Range::of(1, 5).or_zero("3 where the bus has at least three servers, else 1"));
        /// Whether NATS has to be spoken to over TLS.
        tls: bool = false, in Kind::Boolean;
        /// A file (PEM) of authorities for the certificates of the servers, in addition to the system's authorities.
        bus_ca: Option<String> = None, in Kind::Text { max_len: 4096 };
        /// Whether state counts as stored only when this machine's disk has it in addition to the bus. Without it the
        /// working copy is fetched after power loss.
        local_sync: bool = true, in Kind::Boolean;
        /// Bytes that the files may take on the bus, which JetStream reserves, and an eighth more. Above it the store
        /// is full. A node does not start on a bus without room for a configured limit.
        max_bytes: Bytes = Bytes(0), in Kind::Size(Range::of(64 * MIB, 16 * TIB).or_zero("4 GiB, or half of it and so on down to 64 MiB where the bus has no room for it"));
    }
}

//! The configurations of the parts.

use std::path::Path;

use super::bus::{STREAM, SUBJECT};
use crate::load::plan::Encoding;

/// A server of the bus.
pub(super) fn server(host: &str, number: usize, port: u16, routes: &[u16], directory: &Path) -> String {
    let own = routes.get(number).copied().unwrap_or_default();
    let all: Vec<String> = routes.iter().map(|route| format!("\"nats://{host}:{route}\"")).collect();
    format!(
        "server_name: bus-{number}\nlisten: \"{host}:{port}\"\n\
         jetstream {{ store_dir: \"{}/bus-{number}\", max_mem: 64M, max_file: 8G }}\n\
         cluster {{ name: lab, listen: \"{host}:{own}\", routes: [{}] }}\n",
        directory.display(),
        all.join(", ")
    )
}

fn word(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Json => "json",
        Encoding::MessagePack => "msgpack",
    }
}

/// A gateway: documents of devices go to the bus.
pub(super) fn gateway(server: &str, encoding: Encoding) -> String {
    let encoding = word(encoding);
    format!(
        "[[sink]]\nname = \"bus\"\nkind = \"nats\"\nurl = \"{server}\"\nstream = \"{STREAM}\"\nsubject = \"{SUBJECT}\"\n\
         [[pipeline]]\nname = \"gateway\"\nfrom = [\"lab/device/#\"]\nencode = \"{encoding}\"\nto = [\"bus\"]\n"
    )
}

/// A hub: documents of the bus go to the customer that they name.
pub(super) fn hub(server: &str, encoding: Encoding) -> String {
    let encoding = word(encoding);
    format!(
        "[[source]]\nname = \"devices\"\nkind = \"jetstream\"\nurl = \"{server}\"\nstream = \"{STREAM}\"\nsubject = \"{SUBJECT}.>\"\n\
         group = \"hub\"\n[[sink]]\nname = \"customers\"\nkind = \"topic\"\n[[pipeline]]\nname = \"hub\"\nsource = \"devices\"\n\
         format = \"{encoding}\"\nencode = \"json\"\ntopic = \"'lab/customer/' + payload.customer + '/' + payload.device\"\n\
         to = [\"customers\"]\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hubs_read_the_files_of_gateways() {
        for (encoding, word) in [(Encoding::Json, "json"), (Encoding::MessagePack, "msgpack")] {
            assert!(gateway("nats://h:1", encoding).contains(&format!("encode = \"{word}\"")));
            assert!(hub("nats://h:1", encoding).contains(&format!("format = \"{word}\"")));
        }
        let file = server("h", 1, 7, &[8, 9], Path::new("/d"));
        assert!(file.contains("listen: \"h:7\"") && file.contains("listen: \"h:9\""), "{file}");
    }
}

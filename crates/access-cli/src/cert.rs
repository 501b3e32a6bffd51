//! `tidegate cert dev`: an authority, a server's certificate and a client's, to try TLS on one's own machine.

use std::fmt::Write as _;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args as ClapArgs, Subcommand};

use tidegate_certificates::authority::{Authority, Holder, Pair};
use tidegate_terminal::{Exit, print_and_exit, report};

const CERT_DEV: &str = "\
Examples:
  tidegate cert dev
  tidegate cert dev --out /tmp/certs --name broker.lan --name 192.168.1.20";

/// Commands that make certificates.
#[derive(Debug, Subcommand)]
pub enum CertCommand {
    /// Make an authority, a server's certificate and a client's, to try TLS
    #[command(after_help = CERT_DEV)]
    Dev(DevArgs),
}

/// The arguments of `cert dev`.
#[derive(Clone, Debug, ClapArgs)]
pub struct DevArgs {
    /// Write the files to this directory; it is made if it is not there
    #[arg(long, value_name = "DIR", default_value = "certs")]
    out: PathBuf,
    /// A further name or address of the server, beside localhost and this machine's name; repeatable
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: Vec<String>,
    /// The name in the client's certificate
    #[arg(long, value_name = "NAME", default_value = "client", value_parser = NonEmptyStringValueParser::new())]
    client: String,
}

/// Why nothing was made.
#[derive(Debug, thiserror::Error)]
enum DevError {
    #[error("{} is there already; remove it, or choose another directory with --out", .0.display())]
    Exists(PathBuf),
    #[error("cannot write {}: {source}", file.display())]
    Write { file: PathBuf, source: io::Error },
    #[error("cannot make the {item}: {source}; names are host names or addresses")]
    Issue { item: &'static str, source: rcgen::Error },
}

/// Carries out a command.
pub fn run(command: &CertCommand) -> Exit {
    match command {
        CertCommand::Dev(args) => dev(args),
    }
}

/// Makes the files and says how to use them.
fn dev(args: &DevArgs) -> Exit {
    match make(args) {
        Ok(names) => print_and_exit(&advice(&args.out, &names), Exit::Ok),
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

/// Makes all files and returns the names of the server.
fn make(args: &DevArgs) -> Result<Vec<String>, DevError> {
    let names = server_names(args);
    let issue = |item| move |source| DevError::Issue { item, source };
    let authority = Authority::new().map_err(issue("authority"))?;
    let server = authority.issue(Holder::Server, "localhost", &names).map_err(issue("server's certificate"))?;
    let client = authority.issue(Holder::Client, &args.client, &[]).map_err(issue("client's certificate"))?;
    let mut files = Vec::new();
    for (name, Pair { certificate, key }) in [("ca", authority.pair()), ("server", server), ("client", client)] {
        files.push((args.out.join(format!("{name}.pem")), certificate));
        files.push((args.out.join(format!("{name}.key")), key));
    }
    // Nothing is written unless all of it can be.
    if let Some((file, _)) = files.iter().find(|(file, _)| file.symlink_metadata().is_ok()) {
        return Err(DevError::Exists(file.clone()));
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&args.out);
    made.map_err(|source| DevError::Write { file: args.out.clone(), source })?;
    for (position, (file, text)) in files.iter().enumerate() {
        if let Err(error) = write(file, text) {
            // A further attempt has to find none of them. The file that failed may be another process's.
            for (made, _) in files.iter().take(position) {
                let _ = std::fs::remove_file(made);
            }
            return Err(error);
        }
    }
    Ok(names)
}

/// Writes a file that was not there, for its owner alone.
fn write(file: &Path, text: &str) -> Result<(), DevError> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let written = opened.and_then(|mut opened| {
        opened.write_all(text.as_bytes()).inspect_err(|_| {
            let _ = std::fs::remove_file(file);
        })
    });
    written.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => DevError::Exists(file.into()),
        _ => DevError::Write { file: file.into(), source },
    })
}

/// The names and addresses of this machine, and the requested ones.
fn server_names(args: &DevArgs) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    let machine = tidegate_proc::host_name();
    let plain = |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    let machine = machine.as_deref().filter(plain);
    for name in machine.into_iter().chain(args.name.iter().map(String::as_str)) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// The written files, the lines of configuration for them, and a command to try them.
fn advice(out: &Path, names: &[String]) -> String {
    let file = |name: &str| out.join(name).display().to_string();
    let mut text = format!(
        "Certificates for development, for {}:\n\n  {ca}      the authority; clients trust it\n  {ca_key}      its key: \
         its owner can pose as any server that these clients trust\n  {server}, {server_key}\n  {client}, {client_key}\n",
        names.join(", "),
        ca = file("ca.pem"),
        ca_key = file("ca.key"),
        server = file("server.pem"),
        server_key = file("server.key"),
        client = file("client.pem"),
        client_key = file("client.key"),
    );
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "\nIn the configuration:\n\n  [[listener]]\n  address = \"mqtts://127.0.0.1:8883\"\n  certificate = {}\n  key = {}\n  \
         # To let in only who has a certificate of this authority:\n  # client_certificate = \"required\"\n  # client_ca = {}\n",
        tidegate_config::value::quoted(&file("server.pem")),
        tidegate_config::value::quoted(&file("server.key")),
        tidegate_config::value::quoted(&file("ca.pem")),
    );
    let _ = write!(
        text,
        "\nTo try it:\n\n  tidegate --listen mqtts://8883 --set listener.0.certificate={} --set listener.0.key={}\n  \
         tidegate sub --cafile {ca} -t 'test/#' -v\n  tidegate pub --cafile {ca} -t test/1 -m hello\n  \
         with a certificate of the client's own: --cert {} --key {}\n",
        file("server.pem"),
        file("server.key"),
        file("client.pem"),
        file("client.key"),
        ca = file("ca.pem"),
    );
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use tidegate_client::net::{TlsConnector, TlsOptions};

    use super::*;

    fn args(name: &str) -> DevArgs {
        let out = std::env::temp_dir().join(format!("tidegate-cert-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&out);
        DevArgs { out, name: vec!["broker.example".into(), "192.0.2.9".into()], client: "device 1".into() }
    }

    #[test]
    fn six_files_for_their_owner_alone_which_a_client_can_use() {
        let args = args("all");
        let names = make(&args).unwrap();
        for name in ["localhost", "::1", "broker.example", "192.0.2.9"] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
        for name in ["ca.pem", "ca.key", "server.pem", "server.key", "client.pem", "client.key"] {
            assert_eq!(std::fs::metadata(args.out.join(name)).unwrap().mode() & 0o777, 0o600, "{name}");
        }
        let file = |name: &str| Some(args.out.join(name));
        let (ca_file, certificate, key) = (file("ca.pem"), file("client.pem"), file("client.key"));
        let connector = TlsConnector::new(&TlsOptions { ca_file, certificate, key, ..TlsOptions::default() });
        assert!(connector.is_ok(), "{connector:?}");
        let said = advice(&args.out, &names);
        for part in ["mqtts://127.0.0.1:8883", "server.pem", "--cafile", "listener.0.key="] {
            assert!(said.contains(part), "{said}");
        }
        std::fs::remove_dir_all(&args.out).unwrap();
    }

    #[test]
    fn nothing_that_is_there_is_touched() {
        let args = args("twice");
        std::fs::create_dir_all(&args.out).unwrap();
        let there = args.out.join("client.key");
        std::fs::write(&there, "precious").unwrap();
        let text = make(&args).unwrap_err().to_string();
        assert!(text.contains("client.key is there already") && text.contains("--out"), "{text}");
        assert_eq!(std::fs::read_to_string(&there).unwrap(), "precious");
        assert_eq!(std::fs::read_dir(&args.out).unwrap().count(), 1);
        std::fs::remove_dir_all(&args.out).unwrap();
    }

    #[test]
    fn an_invalid_name_is_reported() {
        let args = DevArgs { name: vec!["gr\u{fc}n".into()], ..args("name") };
        let text = make(&args).unwrap_err().to_string();
        assert!(text.contains("names are host names or addresses"), "{text}");
    }
}

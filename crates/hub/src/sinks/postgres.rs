//! A table of `PostgreSQL`. Fields of a record are columns; `message_id` is the primary key: the id of the message,
//! with the pipeline and the sink, so that a message that comes again replaces its own row and no other. A batch is one statement, and so all of it or nothing.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use postgres::config::SslMode;
use postgres::error::SqlState;
use postgres::types::Json;
use postgres::{Client, Config, NoTls};
use serde_json::{Map, Value};

use super::place::Ids;
use super::postgres_tls::Tls;
use super::{Sink, SinkError, no_column, with_causes};
use crate::open_error::OpenError;
use crate::record::Record;

/// The column of the id of a record.
const ID: &str = "message_id";
/// Silence after which the server is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Columns that a table may get.
const MAX_COLUMNS: usize = 256;
/// Longest name of a column, bytes: the server cuts longer ones off.
const MAX_NAME: usize = 63;

/// Which database and table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostgresSettings {
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`; with `sslmode=require` in its query, over TLS.
    pub url: String,
    /// Authorities that are trusted; without a file, the system's.
    pub ca_file: Option<PathBuf>,
    /// The table, with its schema before a point where it has one. It is made when it is not there, and gets a column
    /// for each new field.
    pub table: String,
    /// Time for a connection, and for a batch.
    pub timeout: Duration,
}

pub(super) struct PostgresSink {
    config: Config,
    /// The encryption of connections, if there is any.
    tls: Option<Tls>,
    /// The table in quotes.
    table: String,
    timeout: Duration,
    ids: Ids,
    open: Option<Connection>,
}

struct Connection {
    client: Client,
    columns: BTreeSet<String>,
    /// The columns of the unique index with [`ID`]. That of a hypertable of `TimescaleDB` has its time, too.
    key: Vec<String>,
}

/// The columns of the unique indexes of a table, those with the fewest first.
const UNIQUE: &str = "SELECT (SELECT array_agg(a.attname::text) FROM pg_attribute a WHERE a.attrelid = i.indrelid \
    AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])) FROM pg_index i WHERE i.indrelid = to_regclass($1) \
    AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL ORDER BY i.indnkeyatts";

impl PostgresSink {
    pub(super) fn new(settings: &PostgresSettings, ids: Ids) -> Result<Self, OpenError> {
        // The library does not repeat the URL, which may hold a password.
        // The certificate is checked in any case.
        let url = settings.url.replace("sslmode=verify-full", "sslmode=require");
        let mut config = Config::from_str(&url).map_err(|error| OpenError::part("the URL of the database", &error))?;
        config.connect_timeout(settings.timeout).application_name("tidegate-hub");
        // A server that has vanished without a word is noticed.
        config.tcp_user_timeout(settings.timeout).keepalives_idle(KEEP_ALIVE);
        let tls = match config.get_ssl_mode() {
            SslMode::Require => Some(Tls::new(settings.ca_file.as_deref())?),
            _ if settings.ca_file.is_some() => {
                let why = "`ca` is for TLS: add `?sslmode=require` to the URL of the database";
                return Err(OpenError::setting("ca", why));
            }
            _ => None,
        };
        if settings.table.is_empty() {
            return Err(OpenError::setting("table", "it has no `table`"));
        }
        let table = settings.table.split('.').map(quoted).collect::<Vec<_>>().join(".");
        Ok(Self { config, tls, table, timeout: settings.timeout, ids, open: None })
    }

    fn row(&self, record: &Record) -> Map<String, Value> {
        let mut row = record.object();
        row.insert(ID.to_owned(), Value::String(self.ids.of(record.id())));
        row
    }

    fn open(&mut self) -> Result<&mut Connection, SinkError> {
        let open = match self.open.take() {
            Some(open) => open,
            None => connect((&self.config, self.tls.as_ref()), &self.table, self.timeout)?,
        };
        Ok(self.open.insert(open))
    }

    fn insert(&mut self, rows: Vec<Map<String, Value>>) -> Result<(), SinkError> {
        let table = self.table.clone();
        let open = self.open()?;
        let new = new_columns(&rows, &open.columns)?;
        if !new.is_empty() {
            let add = |(field, kind): &(String, _)| format!("ADD COLUMN IF NOT EXISTS {} {kind}", quoted(field));
            let all: Vec<String> = new.iter().map(add).collect();
            let alter = format!("ALTER TABLE {table} {}", all.join(", "));
            open.client.batch_execute(&alter).map_err(|error| no_new_column(&error, &new))?;
            open.columns.extend(new.into_iter().map(|(field, _)| field));
        }
        let is_there = |column: &&String| rows.iter().any(|row| row.contains_key(*column));
        let columns: Vec<&String> = open.columns.iter().filter(is_there).collect();
        let list = columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", ");
        let others = columns.iter().filter(|column| !open.key.contains(column));
        let set = others.map(|column| format!("{0} = EXCLUDED.{0}", quoted(column))).collect::<Vec<_>>().join(", ");
        let key = open.key.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", ");
        let conflict = match (open.columns.contains(ID), set.as_str()) {
            (false, _) => String::new(),
            (true, "") => format!("ON CONFLICT ({key}) DO NOTHING"),
            (true, set) => format!("ON CONFLICT ({key}) DO UPDATE SET {set}"),
        };
        let statement = format!(
            "INSERT INTO {table} ({list}) SELECT {list} FROM jsonb_populate_recordset(NULL::{table}, $1) {conflict}"
        );
        // Within a statement no row may be replaced twice: of one id the last one counts.
        let mut seen = BTreeSet::new();
        let mut unique: Vec<Value> = Vec::with_capacity(rows.len());
        for row in rows.into_iter().rev() {
            if seen.insert(row.get(ID).map(ToString::to_string)) {
                unique.push(Value::Object(row));
            }
        }
        unique.reverse();
        let prepared = open.client.prepare_typed(&statement, &[postgres::types::Type::JSONB]).map_err(|e| judge(&e))?;
        open.client.execute(&prepared, &[&Json(unique)]).map_err(|error| judge(&error))?;
        Ok(())
    }
}

fn connect((config, tls): (&Config, Option<&Tls>), table: &str, timeout: Duration) -> Result<Connection, SinkError> {
    let connected = match tls {
        Some(tls) => config.connect(tls.clone()),
        None => config.connect(NoTls),
    };
    let mut client = connected.map_err(|error| SinkError::away_by(&error))?;
    let limit = format!("SET statement_timeout = {}", timeout.as_millis());
    client.batch_execute(&limit).map_err(|error| judge(&error))?;
    let create = format!("CREATE TABLE IF NOT EXISTS {table} ({ID} text PRIMARY KEY)");
    // The server asks for the right to make tables even where the table is there.
    let made = match client.batch_execute(&create) {
        Err(error) if error.code() != Some(&SqlState::INSUFFICIENT_PRIVILEGE) => return Err(judge(&error)),
        made => made,
    };
    let describe = client.prepare(&format!("SELECT * FROM {table} LIMIT 0"));
    let describe = describe.map_err(|error| judge(made.as_ref().err().unwrap_or(&error)))?;
    let columns = describe.columns().iter().map(|column| column.name().to_owned()).collect();
    let indexes = client.query(UNIQUE, &[&table]).map_err(|error| judge(&error))?;
    let keys = indexes.iter().filter_map(|index| index.get::<_, Option<Vec<String>>>(0));
    // Without such an index the server refuses the first batch, and says so.
    let key = keys.into_iter().find(|key| key.iter().any(|column| column == ID)).unwrap_or_else(|| vec![ID.to_owned()]);
    Ok(Connection { client, columns, key })
}

/// The fields of rows that have a value and no column yet, with the types of their columns. Refuses more than a table gets,
/// and names that the server would cut off: their values would be lost.
fn new_columns(
    rows: &[Map<String, Value>],
    known: &BTreeSet<String>,
) -> Result<Vec<(String, &'static str)>, SinkError> {
    let fields: BTreeSet<&String> = rows.iter().flat_map(Map::keys).filter(|field| !known.contains(*field)).collect();
    // Only a value tells the type of a column.
    let typed = |field: &String| Some((field.clone(), rows.iter().find_map(|row| kind(row.get(field)?))?));
    let new: Vec<(String, &'static str)> = fields.into_iter().filter_map(typed).collect();
    if let Some((long, _)) = new.iter().find(|(name, _)| name.len() > MAX_NAME) {
        return Err(SinkError::Refused(format!("the field `{long}` is longer than the {MAX_NAME} bytes of a column")));
    }
    match new.last() {
        Some((last, _)) if known.len() + new.len() > MAX_COLUMNS => Err(no_column(last, MAX_COLUMNS)),
        _ => Ok(new),
    }
}

/// A name in quotes.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\"").replace('\0', ""))
}

/// The type of the column for a value.
fn kind(value: &Value) -> Option<&'static str> {
    match value {
        Value::Null => None,
        Value::Bool(_) => Some("boolean"),
        Value::Number(_) => Some("double precision"),
        Value::String(_) => Some("text"),
        Value::Array(_) | Value::Object(_) => Some("jsonb"),
    }
}

/// Whether a retry may help: a value that does not fit its column will not fit it later.
fn judge(error: &postgres::Error) -> SinkError {
    let said = with_causes(error);
    if error.code().is_some_and(|code| blames_the_row(code.code())) {
        SinkError::Refused(said)
    } else {
        SinkError::Away(said)
    }
}

/// The error of columns that cannot be added. Where the user may not do it, the rows with other fields are not to blame.
fn no_new_column(error: &postgres::Error, new: &[(String, &'static str)]) -> SinkError {
    let names = new.iter().map(|(field, _)| format!("`{field}`")).collect::<Vec<_>>().join(", ");
    match error.code() {
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            SinkError::Refused(format!("the table gets no column for {names}: {}", with_causes(error)))
        }
        _ => judge(error),
    }
}

/// Whether an error is about the values of a row. Class 22 is about data, 23 about constraints, 44 about the rule of a view,
/// and 54 about sizes; triggers raise `P0001`.
fn blames_the_row(code: &str) -> bool {
    ["22", "23", "44", "54"].iter().any(|class| code.starts_with(class)) || code == "P0001"
}

impl Sink for PostgresSink {
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        let rows = batch.iter().map(|record| self.row(record)).collect();
        let outcome = self.insert(rows);
        if matches!(outcome, Err(SinkError::Away(_))) {
            self.open = None;
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;
    use crate::record::Content;
    use crate::sinks::SinkLane;

    #[test]
    fn the_key_of_a_row_names_the_pipeline_and_the_sink() {
        let settings =
            PostgresSettings { url: "postgres://h/d".into(), table: "t".into(), ..PostgresSettings::default() };
        let key = |place: SinkLane<'_>| {
            let sink = PostgresSink::new(&settings, Ids::new(&place, "db")).unwrap();
            let message = Message { id: "a-1".into(), ..Message::default() };
            sink.row(&Record::new(Arc::new(message), Content::default()))[ID].clone()
        };
        let hot = SinkLane { pipeline: "hot", ..SinkLane::default() };
        assert_eq!(key(hot), "a-1/hot/db");
        assert_eq!(key(SinkLane { dead_letters: true, ..hot }), "a-1/hot/db/dead");
        assert_eq!(key(SinkLane { pipeline: "cold", ..hot }), "a-1/cold/db");
    }

    #[test]
    fn rows_with_more_fields_than_columns_are_refused() {
        let row = |fields: std::ops::Range<usize>, value: Value| -> Map<String, Value> {
            fields.map(|at| (format!("c{at}"), value.clone())).collect()
        };
        let known: BTreeSet<String> = (0..MAX_COLUMNS).map(|at| format!("c{at}")).collect();
        let none = BTreeSet::new();
        let check = |rows: &[Map<String, Value>], known: &BTreeSet<String>| match new_columns(rows, known) {
            Ok(new) => format!("{} new", new.len()),
            Err(SinkError::Refused(why)) => why,
            Err(other) => panic!("{other:?}"),
        };
        let one = Value::from(1);
        assert_eq!(check(&[row(0..256, one.clone())], &none), "256 new");
        assert!(check(&[row(0..200, one.clone()), row(200..257, one.clone())], &none).contains("256 columns"));
        assert_eq!(check(&[row(0..256, one.clone())], &known), "0 new");
        assert!(check(&[row(255..257, one.clone())], &known).contains("`c256`"));
        assert_eq!(check(&[row(0..300, Value::Null)], &known), "0 new", "null needs no column");
        let long: Map<String, Value> = std::iter::once(("x".repeat(64), one)).collect();
        assert!(check(&[long], &none).contains("63 bytes"));
    }

    #[test]
    fn errors_about_values_blame_the_row() {
        for code in ["22P05", "23505", "44000", "54000", "54011", "P0001"] {
            assert!(blames_the_row(code), "{code}");
        }
        for code in ["08006", "28P01", "42501", "42P10", "40001", "53100", "57014", "P0002"] {
            assert!(!blames_the_row(code), "{code}");
        }
    }

    #[test]
    fn a_url_without_tls_names_no_authorities() {
        let open = |url: &str, ca: Option<&str>| {
            let ca_file = ca.map(PathBuf::from);
            let settings = PostgresSettings { url: url.into(), table: "t".into(), ca_file, ..Default::default() };
            PostgresSink::new(&settings, Ids::default())
                .map(|sink| sink.tls.is_some())
                .map_err(|error| error.to_string())
        };
        assert_eq!(open("postgres://h/d", None), Ok(false));
        assert!(open("postgres://h/d", Some("ca.pem")).is_err_and(|why| why.contains("sslmode=require")));
        for mode in ["require", "verify-full"] {
            let missing = open(&format!("postgres://h/d?sslmode={mode}"), Some("/no/such/file"));
            assert!(missing.is_err_and(|why| why.contains("/no/such/file")), "{mode}");
        }
    }
}

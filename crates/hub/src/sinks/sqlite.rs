//! A table in a file of `SQLite`. Fields of a record are columns, and `message_id` is the primary key: the id of the
//! message, with the pipeline and the sink. So a message that comes again replaces its own row and no other. A batch is
//! one transaction, which is on disk before its messages are acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::Value as Cell;
use rusqlite::{Connection, ErrorCode, TransactionBehavior, params_from_iter};
use serde_json::Value;

use super::file::prepare_directory;
use super::place::Ids;
use super::{Sink, SinkError, no_column};
use crate::open_error::OpenError;
use crate::record::Record;

/// The column of the id of a record.
const ID: &str = "message_id";
/// Columns that a table may get.
const MAX_COLUMNS: usize = 256;

/// Which file and table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SqliteSettings {
    /// The database, which is made when it is not there.
    pub path: PathBuf,
    /// The table. It is made when it is not there, and gets a column for each new field.
    pub table: String,
    /// Time for which another writer of the file is waited for.
    pub timeout: Duration,
}

impl SqliteSettings {
    /// The key whose value is of no use, and why.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.path.as_os_str().is_empty() {
            return Err(("path", "it has no `path`".to_owned()));
        }
        if self.table.is_empty() {
            return Err(("table", "it has no `table`".to_owned()));
        }
        if self.table.to_ascii_lowercase().starts_with("sqlite_") {
            return Err(("table", format!("SQLite keeps names like `{}` for itself", self.table)));
        }
        Ok(())
    }
}

pub(super) struct SqliteSink {
    settings: SqliteSettings,
    ids: Ids,
    open: Option<Open>,
}

struct Open {
    connection: Connection,
    /// Columns by their names in lower case: `SQLite` does not tell apart `Temp` and `temp`.
    columns: BTreeSet<String>,
    /// Whether a second row of one id is an error.
    is_unique: bool,
}

/// Fields of a row by their names in lower case, each with its name as it came.
type Row<'a> = BTreeMap<String, (&'a str, Cell)>;

impl SqliteSink {
    pub(super) fn new(settings: &SqliteSettings, ids: Ids) -> Result<Self, OpenError> {
        settings.check()?;
        Ok(Self { settings: settings.clone(), ids, open: None })
    }

    fn row<'a>(&self, record: &'a Record) -> Row<'a> {
        let fields = record.fields().iter();
        let mut row: Row<'a> =
            fields.map(|(name, value)| (name.to_ascii_lowercase(), (&**name, cell(value)))).collect();
        row.insert(ID.to_owned(), (ID, Cell::Text(self.ids.of(record.id()))));
        row
    }

    fn connect(&self) -> Result<Open, SinkError> {
        let path = &self.settings.path;
        let failed = |error: &dyn std::fmt::Display| SinkError::Away(format!("{}: {error}", path.display()));
        let is_new = prepare_directory(path).map_err(|error| failed(&error))?;
        let connection = Connection::open(path).map_err(|error| failed(&error))?;
        let prepare = || {
            connection.busy_timeout(self.settings.timeout)?;
            if is_new {
                // Readers and the hub do not wait for each other. A database of others stays as it is.
                connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
            }
            // A commit is on disk when it returns.
            connection.execute_batch("PRAGMA synchronous = FULL")
        };
        prepare().map_err(|error| failed(&error))?;
        Ok(Open { connection, columns: BTreeSet::new(), is_unique: false })
    }

    /// Writes all rows or none. Returns a field that has a value and no column, if there is one: no row is written then.
    fn insert(&self, open: &mut Open, rows: &[Row<'_>]) -> rusqlite::Result<Option<String>> {
        let Open { connection, columns, is_unique } = open;
        let table = quoted(&self.settings.table);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let fields: BTreeMap<&String, &str> =
            rows.iter().flat_map(|row| row.iter().map(|(key, (name, _))| (key, *name))).collect();
        if fields.keys().any(|key| !columns.contains(*key)) {
            let create = format!("CREATE TABLE IF NOT EXISTS {table} ({ID} TEXT PRIMARY KEY NOT NULL)");
            transaction.execute_batch(&create)?;
            *columns = columns_of(&transaction, &self.settings.table)?;
            for (key, name) in fields.iter().filter(|(key, _)| **key != ID) {
                if columns.contains(*key) || columns.len() >= MAX_COLUMNS {
                    continue;
                }
                // Only a value tells the type of the column.
                let Some(kind) = rows.iter().filter_map(|row| row.get(*key)).find_map(|(_, cell)| kind(cell)) else {
                    continue;
                };
                transaction.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {} {kind}", quoted(name)))?;
                columns.insert((*key).clone());
            }
            *is_unique = has_unique_id(&transaction, &self.settings.table)?;
        }
        let is_lost = |(key, (_, cell)): &(&String, &(&str, Cell))| *cell != Cell::Null && !columns.contains(*key);
        let mut cells = rows.iter().filter(|_| columns.len() >= MAX_COLUMNS).flatten();
        if let Some((_, (name, _))) = cells.find(is_lost) {
            return Ok(Some((*name).to_owned()));
        }
        let used: Vec<(&String, &str)> = fields.into_iter().filter(|(key, _)| columns.contains(*key)).collect();
        {
            let mut statement = transaction.prepare(&upsert(&table, &used, *is_unique))?;
            for row in rows {
                let cell = |key: &String| row.get(key).map_or(Cell::Null, |(_, cell)| cell.clone());
                statement.execute(params_from_iter(used.iter().map(|(key, _)| cell(key))))?;
            }
        }
        transaction.commit().map(|()| None)
    }
}

/// The statement that writes a row of these fields.
fn upsert(table: &str, fields: &[(&String, &str)], is_unique: bool) -> String {
    let names: Vec<String> = fields.iter().map(|(_, name)| quoted(name)).collect();
    let marks = vec!["?"; names.len()].join(", ");
    let others = fields.iter().filter(|(key, _)| *key != ID);
    let set = others.map(|(_, name)| format!("{0} = excluded.{0}", quoted(name))).collect::<Vec<_>>().join(", ");
    let conflict = match (is_unique, set.as_str()) {
        (false, _) => String::new(),
        (true, "") => format!("ON CONFLICT ({ID}) DO NOTHING"),
        (true, set) => format!("ON CONFLICT ({ID}) DO UPDATE SET {set}"),
    };
    format!("INSERT INTO {table} ({}) VALUES ({marks}) {conflict}", names.join(", "))
}

fn columns_of(connection: &Connection, table: &str) -> rusqlite::Result<BTreeSet<String>> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?)")?;
    let names = statement.query_map([table], |row| row.get::<_, String>(0))?;
    names.map(|name| name.map(|name| name.to_ascii_lowercase())).collect()
}

/// Whether the table has an index by which each id is there once.
fn has_unique_id(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    let query = "SELECT count(*) FROM pragma_index_list(?1) AS list WHERE list.\"unique\" AND NOT list.partial \
                 AND (SELECT group_concat(lower(name)) FROM pragma_index_info(list.name)) = ?2";
    connection.query_row(query, [table, ID], |row| row.get::<_, i64>(0)).map(|count| count > 0)
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\"").replace('\0', ""))
}

/// A value as a cell. Arrays and objects are text in JSON.
fn cell(value: &Value) -> Cell {
    match value {
        Value::Null => Cell::Null,
        Value::Bool(truth) => Cell::Integer(i64::from(*truth)),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Cell::Integer(whole),
            None => number.as_f64().map_or(Cell::Null, Cell::Real),
        },
        Value::String(text) => Cell::Text(text.clone()),
        Value::Array(_) | Value::Object(_) => Cell::Text(value.to_string()),
    }
}

/// The type of the column for a cell.
fn kind(cell: &Cell) -> Option<&'static str> {
    match cell {
        Cell::Null => None,
        Cell::Integer(_) | Cell::Real(_) => Some("NUMERIC"),
        Cell::Text(_) => Some("TEXT"),
        Cell::Blob(_) => Some("BLOB"),
    }
}

/// Whether a retry may help: a row that the table does not take now, it does not take later.
fn judge(error: &rusqlite::Error) -> SinkError {
    let is_data = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig)
    );
    if is_data { SinkError::Refused(error.to_string()) } else { SinkError::away(error) }
}

impl Sink for SqliteSink {
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.connect()?,
        };
        let rows: Vec<Row<'_>> = batch.iter().map(|record| self.row(record)).collect();
        let outcome = match self.insert(&mut open, &rows) {
            Ok(None) => Ok(()),
            Ok(Some(field)) => Err(no_column(&field, MAX_COLUMNS)),
            Err(error) => Err(judge(&error)),
        };
        if outcome.is_err() {
            // Columns that were added have gone with the transaction.
            open.columns.clear();
        }
        if !matches!(outcome, Err(SinkError::Away(_))) {
            self.open = Some(open);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::message::Message;
    use crate::record::Content;
    use crate::sinks::SinkLane;

    fn database(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tidegate-hub-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder.join("deep/readings.db")
    }

    fn sink_of(path: &Path, pipeline: &str) -> SqliteSink {
        let settings =
            SqliteSettings { path: path.to_owned(), table: "readings".into(), timeout: Duration::from_secs(30) };
        SqliteSink::new(&settings, Ids::new(&SinkLane { pipeline, ..SinkLane::default() }, "db")).unwrap()
    }

    fn record(id: u64, fields: Value) -> Arc<Record> {
        let Value::Object(fields) = fields else { panic!("fields are an object") };
        let fields = fields.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let message = Message { id: id.to_string(), ..Message::default() };
        Arc::new(Record::new(Arc::new(message), Content::Row(fields)))
    }

    /// The rows of an answer, with a bar between cells.
    fn ask(path: &Path, query: &str) -> Vec<String> {
        let connection = Connection::open(path).unwrap();
        let mut statement = connection.prepare(query).unwrap();
        let count = statement.column_count();
        let text = |cell: Cell| match cell {
            Cell::Null => "null".to_owned(),
            Cell::Integer(whole) => whole.to_string(),
            Cell::Real(real) => real.to_string(),
            Cell::Text(text) => text,
            Cell::Blob(_) => "bytes".to_owned(),
        };
        let row = |row: &rusqlite::Row<'_>| {
            let cells: rusqlite::Result<Vec<String>> = (0..count).map(|at| row.get(at).map(text)).collect();
            cells.map(|cells| cells.join("|"))
        };
        statement.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn a_record_that_comes_again_is_one_row() {
        let path = database("again");
        let batch = [record(1, json!({ "t": 31.5 })), record(2, json!({ "t": 2, "note": { "a": [1] }, "ok": true }))];
        sink_of(&path, "hot").write(&batch).unwrap();
        // As after a crash of the hub.
        let mut sink = sink_of(&path, "hot");
        sink.write(&batch).unwrap();
        sink.write(&batch[1..]).unwrap();
        let rows = ask(&path, "SELECT message_id, t, note, ok FROM readings ORDER BY message_id");
        assert_eq!(rows, ["1/hot/db|31.5|null|null", "2/hot/db|2|{\"a\":[1]}|1"]);
        sink_of(&path, "cold").write(&batch).unwrap();
        assert_eq!(ask(&path, "SELECT count(*) FROM readings"), ["4"], "each pipeline has its own rows");
    }

    #[test]
    fn a_new_field_is_a_column_whatever_its_name() {
        let path = database("columns");
        let mut sink = sink_of(&path, "hot");
        sink.write(&[record(1, json!({ "Temp": 1, "a \"b\"; DROP TABLE readings": "x" }))]).unwrap();
        sink.write(&[record(2, json!({ "temp": 2, "none": null }))]).unwrap();
        // Two lanes of a pipeline know nothing of each other's columns.
        let mut other = sink_of(&path, "other");
        other.write(&[record(3, json!({ "late": 3 }))]).unwrap();
        sink.write(&[record(4, json!({ "late": 4 }))]).unwrap();
        assert_eq!(
            ask(&path, "SELECT temp, \"a \"\"b\"\"; DROP TABLE readings\", late FROM readings ORDER BY message_id"),
            ["1|x|null", "2|null|null", "null|null|3", "null|null|4"]
        );
    }

    #[test]
    fn a_row_with_more_fields_than_columns_is_refused() {
        let path = database("wide");
        let mut sink = sink_of(&path, "hot");
        let wide = |fields: usize, value: Value| (0..fields).map(|at| (format!("c{at}"), value.clone())).collect();
        let batch = [record(1, json!({ "c0": 1 })), record(2, Value::Object(wide(MAX_COLUMNS, json!(1))))];
        let outcome = sink.write(&batch);
        assert!(matches!(&outcome, Err(SinkError::Refused(why)) if why.contains("256 columns")), "{outcome:?}");
        assert!(matches!(sink.write(&batch[1..]), Err(SinkError::Refused(_))));
        sink.write(&batch[..1]).unwrap();
        let columns = || ask(&path, "SELECT count(*) FROM pragma_table_info('readings')");
        assert_eq!(columns(), ["2"], "a refused row leaves no columns");
        // Null needs none.
        sink.write(&[record(3, Value::Object(wide(MAX_COLUMNS, json!(null))))]).unwrap();
        sink.write(&[record(4, Value::Object(wide(MAX_COLUMNS - 1, json!(1))))]).unwrap();
        assert_eq!(columns(), [MAX_COLUMNS.to_string()]);
    }

    #[test]
    fn a_row_that_breaks_a_rule_of_the_table_is_refused() {
        let path = database("own");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let connection = Connection::open(&path).unwrap();
        let table = "CREATE TABLE readings (t INTEGER CHECK (t < 100), note TEXT DEFAULT 'none')";
        connection.execute_batch(table).unwrap();
        let mut sink = sink_of(&path, "hot");
        let batch = [record(1, json!({ "t": 1 })), record(2, json!({ "t": 100 }))];
        assert!(matches!(sink.write(&batch), Err(SinkError::Refused(why)) if why.contains("CHECK")));
        assert_eq!(ask(&path, "SELECT count(*) FROM readings"), ["0"], "all of a batch or nothing");
        for _ in 0..2 {
            sink.write(&batch[..1]).unwrap();
        }
        let mode = ask(&path, "PRAGMA journal_mode");
        assert_eq!((ask(&path, "SELECT t, note FROM readings").len(), mode[0].as_str()), (2, "delete"), "no unique id");
    }

    #[test]
    fn a_file_that_another_program_locks_comes_later() {
        let path = database("locked");
        let mut sink = sink_of(&path, "hot");
        sink.settings.timeout = Duration::from_millis(1);
        sink.write(&[record(1, json!({ "t": 1 }))]).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        assert!(matches!(sink.write(&[record(2, json!({ "t": 2 }))]), Err(SinkError::Away(_))));
        other.execute_batch("COMMIT").unwrap();
        sink.write(&[record(2, json!({ "t": 2 }))]).unwrap();
        assert_eq!(ask(&path, "SELECT count(*) FROM readings"), ["2"]);
    }

    #[test]
    fn a_file_that_is_no_database_comes_later() {
        let path = database("text");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "no database at all, and long enough for the head of one. ".repeat(100)).unwrap();
        let outcome = sink_of(&path, "hot").write(&[record(1, json!({ "t": 1 }))]);
        assert!(matches!(&outcome, Err(SinkError::Away(why)) if why.contains("not a database")), "{outcome:?}");
    }

    #[test]
    fn settings_that_name_no_table_are_refused() {
        let new = |path: &str, table: &str| {
            let settings = SqliteSettings { path: path.into(), table: table.into(), ..SqliteSettings::default() };
            SqliteSink::new(&settings, Ids::default()).map(|_| ())
        };
        assert!(new("", "t").is_err() && new("p", "").is_err() && new("p", "SQLite_x").is_err());
        assert!(new("p", "t").is_ok());
    }
}

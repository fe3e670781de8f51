//! The SQLite backend passes the suite.

use std::sync::Arc;

use crate::conformance::Fresh;
use paddock_store::SqliteStore;

pub(crate) async fn fresh() -> Fresh {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(folder.path())
        .await
        .expect("a new store opens");
    Fresh {
        store: Arc::new(store),
        folder,
    }
}

crate::conformance::all!(crate::sqlite::fresh);

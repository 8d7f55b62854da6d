//! Python door of state files, inside and outside a store.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::errors::raise_file;
use mq_statefile::{self as statefile, Aside};

/// Files that are replaced as a whole and have a checksum; `own` is the folder for our own files.
#[pyclass(frozen, module = "mqcommon._core")]
pub struct StateFiles {
    inner: statefile::StateFiles,
}

#[pymethods]
impl StateFiles {
    #[new]
    fn new(directory: PathBuf, own: PathBuf) -> Self {
        Self {
            inner: statefile::StateFiles::at(&directory, &own),
        }
    }

    /// Replaces a file durably; its previous content stays in `{name}.bak`.
    fn save(&self, py: Python<'_>, name: &str, content: &[u8]) -> PyResult<()> {
        py.detach(|| self.inner.save(name, content))
            .map_err(raise_file)
    }

    /// The result of `check` for a file, or for its previous copy; None without a file.
    fn load(&self, py: Python<'_>, name: &str, check: Py<PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let checked = |bytes: &[u8]| read_checked(Some(&check), bytes);
        py.detach(|| self.inner.load_checked(name, checked))
            .map_err(raise_file)
    }

    /// Keeps entries of a file that cannot be used, (name, reason, text), and logs them.
    fn set_aside(&self, py: Python<'_>, name: &str, entries: Vec<(String, String, String)>) {
        let entries: Vec<Aside> = entries.into_iter().map(aside).collect();
        py.detach(|| self.inner.set_aside(name, &entries));
    }
}

/// Returns the result of `check` for a file's bytes; without `check` the bytes.
pub(super) fn read_checked(check: Option<&Py<PyAny>>, bytes: &[u8]) -> Result<Py<PyAny>, String> {
    Python::attach(|py| {
        let text = PyBytes::new(py, bytes);
        match check {
            None => Ok(text.into_any().unbind()),
            Some(check) => check
                .call1(py, (text,))
                .map_err(|error| error.value(py).to_string()),
        }
    })
}

pub(super) fn aside((name, reason, entry): (String, String, String)) -> Aside {
    Aside {
        name,
        reason,
        entry,
    }
}

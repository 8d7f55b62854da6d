//! Python's error tree of the store; `mqstore/errors.py` draws it.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyValueError};
use pyo3::prelude::*;

use mq_statefile::FileError;
use mq_store::StoreError as Error;

create_exception!(
    mqcommon._core,
    StoreError,
    PyException,
    "The store cannot do what was asked; the text says what, which value, and what to do next."
);
create_exception!(
    mqcommon._core,
    StoreLocked,
    StoreError,
    "Another process has the store open."
);
create_exception!(
    mqcommon._core,
    UnknownLayout,
    StoreError,
    "The directory is no store, or one of other file sizes or of an unknown version."
);
create_exception!(
    mqcommon._core,
    StoreDamaged,
    StoreError,
    "Damage that is not a torn tail, and the policy is to refuse."
);
create_exception!(
    mqcommon._core,
    StorePoisoned,
    StoreError,
    "A write or fsync failed earlier; the store only reads until it is reopened."
);
create_exception!(
    mqcommon._core,
    SettingError,
    PyValueError,
    "A setting is unknown, of the wrong type or out of its range."
);

/// The one place that converts errors of the store to Python's. A file error becomes an OSError
/// with errno and file name, so that Python raises FileNotFoundError or PermissionError.
pub(crate) fn raise(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Locked { .. } => StoreLocked::new_err(text),
        Error::UnknownLayout { .. } => UnknownLayout::new_err(text),
        Error::Damaged { .. } | Error::State { .. } => StoreDamaged::new_err(text),
        Error::Forbidden(_) => StoreError::new_err(text),
        Error::Poisoned(_) => StorePoisoned::new_err(text),
        Error::Setting { .. } => SettingError::new_err(text),
        Error::Io { path, source } | Error::Full { path, source } => match source.raw_os_error() {
            Some(errno) => PyOSError::new_err((errno, without_errno(&source), path)),
            None => PyOSError::new_err(text),
        },
    }
}

/// Like [`raise`], for state files outside a store.
pub(crate) fn raise_file(error: FileError) -> PyErr {
    raise(error.into())
}

/// An error of an operation on an open file, whose name is not known.
pub(crate) fn file_error(error: &std::io::Error) -> PyErr {
    let words = without_errno(error);
    match error.raw_os_error() {
        Some(errno) => PyOSError::new_err((errno, words)),
        None => PyOSError::new_err(words),
    }
}

/// The operating system's text without errno and file name, which Python adds itself.
fn without_errno(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

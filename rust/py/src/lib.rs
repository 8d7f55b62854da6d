//! The Python module `mqcommon._core`: the only place that names pyo3.

mod acl;
mod arrow_rows;
mod bench;
mod client;
mod conditions;
mod credentials;
mod errors;
mod fastjson;
mod filter;
mod forks;
mod frame_template;
mod frames;
mod futures;
mod ha;
mod inbox;
mod logging;
mod mappings;
mod offline;
mod outbox;
mod pending;
mod pipeline;
mod range;
mod rebuild;
mod records;
mod registration;
mod request;
mod row_writer;
mod send_counts;
mod server;
mod server_settings;
mod signals;
mod state;
mod store;
mod store_arguments;
mod store_results;
mod store_settings;
mod tls;

use pyo3::prelude::*;

/// The compiled core of mqstack.
#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use super::bench::bench;
    #[pymodule_export]
    use super::client::Connector;
    #[pymodule_export]
    use super::conditions::Conditions;
    #[pymodule_export]
    use super::errors::{
        SettingError, StoreDamaged, StoreError, StoreLocked, StorePoisoned, UnknownLayout,
    };
    #[pymodule_export]
    use super::fastjson::{fastjson_dumps, fastjson_to_strict};
    #[pymodule_export]
    use super::filter::{bloom_bits, check_sql};
    #[pymodule_export]
    use super::frame_template::{FrameTemplate, SentReply};
    #[pymodule_export]
    use super::ha::{HaMaster, HaSlave};
    #[pymodule_export]
    use super::logging::next_log;
    #[pymodule_export]
    use super::offline::{Report, Scan, json_lines};
    #[pymodule_export]
    use super::pending::Pending;
    #[pymodule_export]
    use super::pipeline::{ColumnBuilder, ColumnsAhead, LinesAhead, Memory};
    #[pymodule_export]
    use super::range::{RangeFailed, RangeReader};
    #[pymodule_export]
    use super::rebuild::{RepairReport, cut_log, rebuild};
    #[pymodule_export]
    use super::records::damaged_records;
    #[pymodule_export]
    use super::registration::{read_registration, unpack_registration, write_topic_table};
    #[pymodule_export]
    use super::request::{Event, Request};
    #[pymodule_export]
    use super::row_writer::{RowWriter, SendFailed};
    #[pymodule_export]
    use super::send_counts::{Accepted, SendCounts};
    #[pymodule_export]
    use super::server::{Server, ServerStopped};
    #[pymodule_export]
    use super::state::StateFiles;
    #[pymodule_export]
    use super::store::Store;
    #[pymodule_export]
    use super::store_results::{GetResult, PutResult, QueryResult};
    #[pymodule_export]
    use super::store_settings::set_file_mode;
    #[pymodule_export]
    use super::tls::certificate_end;

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        use pyo3::types::PyModuleMethods;

        super::logging::install();
        module.add("COLUMN_LAYOUTS", super::pipeline::layouts(module.py())?)?;
        // Benches refuse to measure a build with debug assertions.
        module.add("OPTIMISED", !cfg!(debug_assertions))
    }
}

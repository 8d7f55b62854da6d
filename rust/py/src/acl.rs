//! Converts Python's accounts to the rules of access control.

use std::collections::{HashMap, HashSet};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyMapping;

use mq_format::signature::Signer;
use mq_server::{Account, AclRules, AddressPattern};

type Patterns = Vec<Vec<(u16, u16)>>;
/// secret, admin, white addresses, bits for other topics, for other groups, topics, groups.
type Row = (
    String,
    bool,
    Patterns,
    u8,
    u8,
    HashMap<String, u8>,
    HashMap<String, u8>,
);

/// accounts, white addresses, `white_skips_signature`, codes of administration.
type Rules = (HashMap<String, Row>, Patterns, bool, HashSet<i32>);

/// The one row of table "acl", under the key "".
pub(super) fn rules(rows: &Bound<'_, PyMapping>) -> PyResult<AclRules> {
    let (accounts, white, white_skips_signature, admin_codes): Rules =
        rows.get_item("")?.extract()?;
    let accounts = accounts
        .into_iter()
        .map(|(key, row)| Ok((key, account(row)?)))
        .collect::<PyResult<_>>()?;
    Ok(AclRules {
        white: patterns(white),
        accounts,
        white_skips_signature,
        admin_codes,
    })
}

fn account(row: Row) -> PyResult<Account> {
    let (secret, admin, white, default_topic, default_group, topics, groups) = row;
    let signer = Signer::new(&secret);
    Ok(Account {
        signer: signer.ok_or_else(|| PyValueError::new_err("no key for a signature"))?,
        admin,
        white: patterns(white),
        default_topic,
        default_group,
        topics,
        groups,
    })
}

fn patterns(parts: Patterns) -> Vec<AddressPattern> {
    parts.into_iter().map(AddressPattern).collect()
}

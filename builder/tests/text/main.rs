//! What the builder does to text, tested without a compiler.

mod common;
mod output;
mod ptx_rules;
mod ptx_split;
mod resource_table;
mod sources;

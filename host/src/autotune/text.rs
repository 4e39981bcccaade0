//! The text that an answer belongs to.

use std::fmt::Display;

use super::GpuModel;
use super::choice::most_workspace;
use crate::error::Result;
use crate::kernel::{Algorithm, Kernel, LaunchOptions, MathMode};

/// What every line begins with: whose it is, and the format's version.
pub(super) const MAGIC: &str = "cotangent-autotune 1\t";

/// The part that names the model of GPU, the driver and this crate's version.
pub(super) fn of_model(model: &GpuModel) -> String {
    // A name is the driver's to choose, and a line's fields are apart by tabs.
    let name = model.name.replace(char::is_control, " ");
    let ((major, minor), (driver, release)) = (model.target.capability, model.driver);
    format!(
        "{MAGIC}crate={}\tdevice={name}\tcapability={major}.{minor}\tmultiprocessors={}\tdriver={driver}.{release}\t",
        env!("CARGO_PKG_VERSION"),
        model.target.multiprocessors,
    )
}

/// The text for a call, whose algorithm and accumulation are left out of it; none where there is nothing to choose.
///
/// # Errors
/// As [`Kernel::prepare`].
#[doc(hidden)]
pub fn of<K: Kernel>(
    model: &GpuModel,
    kernel: &K,
    args: &K::Args<'_>,
    options: &LaunchOptions<'_>,
) -> Result<Option<String>> {
    kernel.prepare(args, options)?;
    // A grid of the caller's own is one for the portable kernel.
    if options.algorithm != Algorithm::Auto || options.grid.is_some() {
        return Ok(None);
    }
    let Some((key, addresses)) = kernel.plan_key(args, options)? else { return Ok(None) };
    let math = match options.math {
        MathMode::Ieee => "ieee",
        MathMode::Tf32 => "tf32",
    };
    // A workspace counts as what algorithms have use for, so that one that is larger for another's sake has the answer.
    let workspace = match options.workspace {
        None => None,
        Some(workspace) => {
            let most = most_workspace(kernel, args, options, &model.target)?;
            Some(workspace.bytes).filter(|&bytes| bytes < most)
        }
    };
    let workspace = workspace.map_or_else(|| "enough".to_owned(), |bytes| bytes.to_string());
    // Plans look at whole vectors of 16 bytes.
    let alignment = addresses.iter().map(|address| 1 << address.trailing_zeros().min(4));
    Ok(Some(format!(
        "{}kernel={}\telement={}\tmath={math}\tconstants={}\textents={}\talignment={}\tworkspace={workspace}",
        of_model(model),
        kernel.name(),
        kernel.dtype(),
        list(key.constants(kernel.info().constants.len())),
        list(key.numbers(&addresses)),
        list(alignment),
    )))
}

fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(",")
}

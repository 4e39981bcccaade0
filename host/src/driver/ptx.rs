//! What a PTX module says of itself, and whether a driver and a device can take it.

use std::fmt;

use super::error::DriverError;

/// A device's compute capability, 9.0 for Hopper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeCapability {
    /// The number before the point.
    pub major: u32,
    /// The number behind it.
    pub minor: u32,
}

impl ComputeCapability {
    /// The lowest that this crate serves.
    pub const FLOOR: Self = Self { major: 7, minor: 0 };
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A version of the PTX language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PtxVersion {
    /// The number before the point.
    pub major: u32,
    /// The number behind it.
    pub minor: u32,
}

impl fmt::Display for PtxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A version of CUDA, as a driver gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CudaVersion {
    /// The number before the point.
    pub major: u32,
    /// The number behind it.
    pub minor: u32,
}

impl fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Major and minor.
type Number = (u32, u32);

/// The CUDA version with which each PTX version came, oldest first. A driver reads its own version and all
/// older ones. Source: PTX ISA manual, release history. CUDA 12.6 brought no new PTX version.
const RELEASES: &[(Number, Number)] = &[
    ((6, 0), (9, 0)),
    ((6, 1), (9, 1)),
    ((6, 2), (9, 2)),
    ((6, 3), (10, 0)),
    ((6, 4), (10, 1)),
    ((6, 5), (10, 2)),
    ((7, 0), (11, 0)),
    ((7, 1), (11, 1)),
    ((7, 2), (11, 2)),
    ((7, 3), (11, 3)),
    ((7, 4), (11, 4)),
    ((7, 5), (11, 5)),
    ((7, 6), (11, 6)),
    ((7, 7), (11, 7)),
    ((7, 8), (11, 8)),
    ((8, 0), (12, 0)),
    ((8, 1), (12, 1)),
    ((8, 2), (12, 2)),
    ((8, 3), (12, 3)),
    ((8, 4), (12, 4)),
    ((8, 5), (12, 5)),
    ((8, 6), (12, 7)),
    ((8, 7), (12, 8)),
    ((8, 8), (12, 9)),
    ((9, 0), (13, 0)),
    ((9, 1), (13, 1)),
    ((9, 2), (13, 2)),
];

/// Where a `.target` runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// On the capability and all higher ones.
    Up,
    /// On the capability alone (`sm_90a`).
    Exact,
    /// On the capability and higher ones of the same major number (`sm_100f`).
    Family,
}

/// A module's `.target`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    name: String,
    capability: ComputeCapability,
    reach: Reach,
}

impl Target {
    fn parse(name: &str) -> Option<Self> {
        let digits = name.strip_prefix("sm_")?;
        let (digits, reach) = match digits.as_bytes().last()? {
            b'a' => (&digits[..digits.len() - 1], Reach::Exact),
            b'f' => (&digits[..digits.len() - 1], Reach::Family),
            _ => (digits, Reach::Up),
        };
        let number: u32 = digits.parse().ok()?;
        let capability = ComputeCapability { major: number / 10, minor: number % 10 };
        Some(Self { name: name.to_owned(), capability, reach })
    }

    /// Whether a device can run it; the error names what is there and what is needed.
    pub(super) fn check(&self, device: &str, has: ComputeCapability) -> Result<(), DriverError> {
        let needs = self.capability;
        let (fits, needs) = match self.reach {
            Reach::Up => (has >= needs, format!("{needs} or higher")),
            Reach::Exact => (has == needs, format!("exactly {needs}")),
            Reach::Family => (
                has >= needs && has.major == needs.major,
                format!("{needs} or higher within {}.x", needs.major),
            ),
        };
        if fits {
            return Ok(());
        }
        Err(DriverError::WrongTarget { target: self.name.clone(), needs, device: device.to_owned(), has })
    }
}

/// Whether a driver for `driver` reads PTX `ptx`. A driver newer than the table reads at least what the table's
/// last one does; what it reads beyond is for the driver to say.
pub(super) fn check_version(ptx: PtxVersion, driver: CudaVersion) -> Result<(), DriverError> {
    let by_driver = |&&(_, cuda): &&(Number, Number)| cuda <= (driver.major, driver.minor);
    let reads = RELEASES.iter().rfind(by_driver).map_or((0, 0), |&(ptx, _)| ptx);
    let beyond_table = RELEASES.last().is_some_and(|&(_, cuda)| (driver.major, driver.minor) > cuda);
    if (ptx.major, ptx.minor) <= reads || beyond_table {
        return Ok(());
    }
    let needs = RELEASES
        .iter()
        .find(|&&(release, _)| release >= (ptx.major, ptx.minor))
        .map(|&(_, (major, minor))| CudaVersion { major, minor });
    let reads = PtxVersion { major: reads.0, minor: reads.1 };
    Err(DriverError::DriverTooOld { ptx, reads, driver, needs })
}

/// What the head of a PTX module says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) version: PtxVersion,
    pub(super) target: Target,
}

impl Header {
    /// Reads `.version` and `.target`.
    pub(super) fn parse(ptx: &str) -> Result<Self, DriverError> {
        let version = directive(ptx, ".version").ok_or_else(|| not_ptx("it has no .version"))?;
        let parsed = version.split_once('.').and_then(|(major, minor)| {
            Some(PtxVersion { major: major.parse().ok()?, minor: minor.parse().ok()? })
        });
        let version = parsed.ok_or_else(|| not_ptx(&format!("its .version is {version:?}")))?;
        let target = directive(ptx, ".target").ok_or_else(|| not_ptx("it has no .target"))?;
        let name = target.split(',').next().unwrap_or_default().trim();
        let target = Target::parse(name).ok_or_else(|| not_ptx(&format!("its .target is {target:?}")))?;
        Ok(Self { version, target })
    }
}

fn not_ptx(problem: &str) -> DriverError {
    DriverError::NotPtx { problem: problem.to_owned() }
}

/// The rest of the first line that begins with the directive.
fn directive<'a>(ptx: &'a str, name: &str) -> Option<&'a str> {
    ptx.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix(name)?;
        rest.starts_with([' ', '\t']).then(|| rest.split("//").next().unwrap_or_default().trim())
    })
}

/// The parameters of an entry point, as the module declares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters {
    /// How many.
    pub(super) count: usize,
    /// Bytes of all of them packed in order, each aligned.
    pub(super) bytes: usize,
}

impl Parameters {
    /// Reads the parameters of `entry`.
    pub(super) fn parse(ptx: &str, entry: &str) -> Result<Self, DriverError> {
        let Some(list) = entries(ptx).find_map(|(name, list)| (name == entry).then_some(list)) else {
            let available = entries(ptx).map(|(name, _)| name.to_owned()).collect();
            return Err(DriverError::NoEntry { entry: entry.to_owned(), available });
        };
        let mut parameters = Self::default();
        for declaration in list.split(',').map(str::trim).filter(|declaration| !declaration.is_empty()) {
            let (align, bytes) = parameter(declaration)
                .ok_or_else(|| not_ptx(&format!("{entry} has a parameter {declaration:?}")))?;
            parameters.bytes = parameters.bytes.next_multiple_of(align) + bytes;
            parameters.count += 1;
        }
        Ok(parameters)
    }
}

/// Each entry point with the text between its parentheses.
fn entries(ptx: &str) -> impl Iterator<Item = (&str, &str)> {
    ptx.split(".entry").skip(1).filter_map(|after| {
        let after = after.trim_start();
        let end = after.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '%')))?;
        let (name, rest) = after.split_at(end);
        let list =
            rest.trim_start().strip_prefix('(').map_or("", |rest| rest.split(')').next().unwrap_or(""));
        Some((name, list))
    })
}

/// Alignment and bytes of `.param .align 8 .b8 name[16]` or `.param .u64 .ptr .global .align 4 name`.
fn parameter(declaration: &str) -> Option<(usize, usize)> {
    let mut words = declaration.split_whitespace().skip_while(|word| *word != ".param").skip(1);
    let mut align = None;
    let mut size = None;
    let mut pointer = false;
    let mut name = "";
    while let Some(word) = words.next() {
        match word {
            // The alignment behind `.ptr` is that of what it points at.
            ".align" if pointer => drop(words.next()),
            ".align" => align = Some(words.next()?.parse::<usize>().ok()?),
            ".ptr" => pointer = true,
            _ if word.starts_with('.') => size = size.or_else(|| type_bytes(word)),
            _ => name = word,
        }
    }
    let size = size?;
    let count = match name.split_once('[') {
        Some((_, count)) => count.strip_suffix(']')?.parse::<usize>().ok()?,
        None => 1,
    };
    let align = align.unwrap_or(size);
    (align > 0).then_some((align, size * count))
}

/// Bytes of `.u64`, `.f32`, `.b8` and so on.
fn type_bytes(word: &str) -> Option<usize> {
    let bits = word.trim_start_matches(['.', 'u', 's', 'f', 'b']).parse::<usize>().ok()?;
    matches!(bits, 8 | 16 | 32 | 64 | 128).then_some(bits / 8)
}

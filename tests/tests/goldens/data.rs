//! The files of goldens, and the inputs that their cases started from.

use std::collections::HashMap;
use std::path::Path;

use cotangent::DType;
use cotangent::launch::Access;
use cotangent::verify::{HostBuffer, SplitMix64, encode};
use safetensors::SafeTensors;
use serde::Deserialize;

/// What outputs hold before a launch.
const POISON: u8 = 0x6b;

/// One case's sizes, of which each operation has its own.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Case {
    #[serde(skip)]
    number: usize,
    pub(crate) id: String,
    dtype: String,
    pub(crate) extents: Vec<i32>,
    pub(crate) constants: Vec<i32>,
    pub(crate) rows: i64,
    pub(crate) chunks: Vec<i32>,
    pub(crate) pads: Vec<i32>,
    pub(crate) scales: Vec<i32>,
    pub(crate) scale: f64,
    pub(crate) len: i32,
    pub(crate) any_bits: bool,
    pub(crate) to: String,
    magnitudes: HashMap<String, f64>,
}

#[derive(Deserialize)]
struct About {
    torch: String,
    cases: Vec<Case>,
}

/// One operation's goldens.
pub(crate) struct Golden {
    tensors: SafeTensors<'static>,
    pub(crate) cases: Vec<Case>,
    pub(crate) torch: String,
}

impl Golden {
    /// Reads the goldens of an operation.
    pub(crate) fn open(op: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens").join(format!("{op}.safetensors"));
        // Goldens live as long as the tests.
        let bytes: &'static [u8] = std::fs::read(&path).expect("the file is committed").leak();
        let (_, header) = SafeTensors::read_metadata(bytes).expect("a safetensors file");
        let about = &header.metadata().as_ref().expect("the script writes metadata")["golden"];
        let About { torch, mut cases } = serde_json::from_str(about).expect("the script's own form");
        assert!(!cases.is_empty(), "{op}");
        for (number, case) in cases.iter_mut().enumerate() {
            case.number = number;
        }
        Self { tensors: SafeTensors::deserialize(bytes).expect("a safetensors file"), cases, torch }
    }

    /// A result's bytes, if the case has it, of this type.
    pub(crate) fn find(&self, case: &Case, name: &str, dtype: DType) -> Option<&[u8]> {
        let tensor = self.tensors.tensor(&format!("{}/{name}", case.number)).ok()?;
        // BF16, F32, I64 and their like.
        let stored = format!("{:?}", tensor.dtype()).to_lowercase();
        assert_eq!(stored, dtype.name(), "{}, {name}", case.id);
        Some(tensor.data())
    }

    /// A result's bytes.
    pub(crate) fn result(&self, case: &Case, name: &str, dtype: DType) -> &[u8] {
        self.find(case, name, dtype).unwrap_or_else(|| panic!("{} has no {name}", case.id))
    }
}

impl Case {
    pub(crate) fn dtype(&self) -> DType {
        self.dtype.parse().expect("the script has our names")
    }

    /// The largest Σ|terms| of a result's elements.
    pub(crate) fn magnitude(&self, name: &str) -> f64 {
        self.magnitudes[name]
    }

    fn random(&self, name: &str) -> SplitMix64 {
        SplitMix64::from_text(&format!("{} {name}", self.id))
    }

    /// Any bits, as the script's function of this name; and so below.
    pub(crate) fn bits(&self, name: &str, elements: usize) -> Vec<u8> {
        let mut random = self.random(name);
        let size = self.dtype().size();
        (0..elements).flat_map(|_| random.next_u64().to_le_bytes().into_iter().take(size)).collect()
    }

    pub(crate) fn unit(&self, name: &str, elements: usize) -> Vec<u8> {
        self.units(self.dtype(), name, elements, 1.0)
    }

    pub(crate) fn units(&self, dtype: DType, name: &str, elements: usize, factor: f64) -> Vec<u8> {
        let mut random = self.random(name);
        let mut value = || match (random.next_u64(), dtype) {
            (word, DType::F64) => (word >> 11) as f64 * 2.0_f64.powi(-52) - 1.0,
            (word, _) => (word >> 40) as f64 * 2.0_f64.powi(-23) - 1.0,
        };
        encode(dtype, &(0..elements).map(|_| value() * factor).collect::<Vec<_>>())
    }

    pub(crate) fn below(&self, name: &str, bound: u64, elements: usize) -> Vec<f64> {
        let mut random = self.random(name);
        (0..elements).map(|_| random.below(bound) as f64).collect()
    }
}

/// A buffer that a launch reads.
pub(crate) fn input(name: &'static str, dtype: DType, bytes: Vec<u8>) -> HostBuffer {
    HostBuffer { name, element_bytes: dtype.size(), offset: 0, access: Access::Read, bytes }
}

/// A buffer that a launch writes.
pub(crate) fn output(name: &'static str, dtype: DType, elements: usize) -> HostBuffer {
    HostBuffer { access: Access::Write, ..input(name, dtype, vec![POISON; elements * dtype.size()]) }
}

/// A buffer of which a launch keeps what it does not write.
pub(crate) fn update(name: &'static str, dtype: DType, bytes: Vec<u8>) -> HostBuffer {
    HostBuffer { access: Access::Accumulate, ..input(name, dtype, bytes) }
}

/// How many elements extents have.
pub(crate) fn volume(extents: &[i32]) -> usize {
    extents.iter().map(|&extent| extent as usize).product()
}

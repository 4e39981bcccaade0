//! Small programs around the instruction under test.

use cotangent_tests::ptx::{Buffer, Launch, Machine, Memory, Module, Options, Report};

/// The head of a module for a recent GPU.
pub(crate) const HEAD: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n";

/// One thread runs `text`, with operands by width and letter: the n-th input is in `%h`, `%r`, `%d` (16, 32,
/// 64 bits) and `%p` (true where it is not zero) followed by the n-th letter. The answer is whichever of
/// `%ho`, `%ro`, `%do` and `%po` the text writes.
pub(crate) fn eval(text: &str, inputs: &[u64]) -> u64 {
    try_eval(text, inputs).unwrap_or_else(|report| panic!("{text}: {report}"))
}

/// As [`eval`], where a fault is expected or possible.
pub(crate) fn try_eval(text: &str, inputs: &[u64]) -> Result<u64, Box<Report>> {
    let module =
        Module::parse(&program(text, inputs.len())).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut memory = Memory::new();
    let out = memory.alloc("out", 8, 0);
    let mut params = vec![memory.address(out).to_le_bytes().to_vec()];
    params.extend(inputs.iter().map(|input| input.to_le_bytes().to_vec()));
    let launch = Launch { grid: [1; 3], block: [1; 3], shared_bytes: 0, params: &params };
    Machine::new(&module).launch("k", launch, &mut memory, &Options::default())?;
    let bytes = memory.read_all(out).unwrap_or_else(|missing| panic!("{text}: {missing}"));
    Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

/// The program around an instruction.
pub(crate) fn program(text: &str, inputs: usize) -> String {
    let letters = ["a", "b", "c", "e", "f"];
    let mut module = format!("{HEAD}.visible .entry k(.param .u64 out");
    for letter in &letters[..inputs] {
        module += &format!(", .param .u64 in_{letter}");
    }
    module += ")\n{\n.reg .pred %po, %pq;\n.reg .b16 %ho;\n.reg .b32 %ro, %rq;\n.reg .b64 %do, %at;\n";
    for letter in &letters[..inputs] {
        module += &format!(".reg .pred %p{letter};\n.reg .b16 %h{letter};\n.reg .b32 %r{letter};\n");
        module += &format!(".reg .b64 %d{letter};\nld.param.u64 %d{letter}, [in_{letter}];\n");
        module += &format!("cvt.u16.u64 %h{letter}, %d{letter};\ncvt.u32.u64 %r{letter}, %d{letter};\n");
        module += &format!("setp.ne.b64 %p{letter}, %d{letter}, 0;\n");
    }
    module += &format!("ld.param.u64 %at, [out];\n{text}\n");
    module += if text.contains("%po") {
        "selp.b64 %do, 1, 0, %po;\n"
    } else if text.contains("%ro") {
        "cvt.u64.u32 %do, %ro;\n"
    } else if text.contains("%ho") {
        "cvt.u64.u16 %do, %ho;\n"
    } else {
        ""
    };
    module + "st.global.b64 [%at], %do;\nret;\n}\n"
}

/// Checks many (inputs, answer) of one instruction.
pub(crate) fn cases<const N: usize>(text: &str, table: &[([u64; N], u64)]) {
    for (inputs, expected) in table {
        let found = eval(text, inputs);
        assert_eq!(found, *expected, "{text} of {inputs:x?}: {found:#x} where {expected:#x} is right");
    }
}

/// Bits of a single.
pub(crate) fn f(value: f32) -> u64 {
    value.to_bits() as u64
}

/// Bits of a double.
pub(crate) fn d(value: f64) -> u64 {
    value.to_bits()
}

/// A launch of one entry `k` whose parameters are buffers.
pub(crate) struct Run {
    pub memory: Memory,
    pub buffers: Vec<Buffer>,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: usize,
    pub budget: u64,
}

impl Run {
    /// One block of `threads`.
    pub(crate) fn new(threads: u32) -> Self {
        let budget = 10_000_000;
        Self {
            memory: Memory::new(),
            buffers: Vec::new(),
            grid: [1; 3],
            block: [threads, 1, 1],
            shared_bytes: 0,
            budget,
        }
    }

    /// Adds a parameter: an uninitialised buffer.
    pub(crate) fn output(mut self, name: &str, bytes: usize) -> Self {
        let buffer = self.memory.alloc(name, bytes, 0);
        self.buffers.push(buffer);
        self
    }

    /// Adds a parameter: a buffer of 32-bit words.
    pub(crate) fn words(mut self, name: &str, words: &[u32]) -> Self {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let buffer = self.memory.alloc_with(name, &bytes, 0);
        self.buffers.push(buffer);
        self
    }

    pub(crate) fn grid(mut self, blocks: u32) -> Self {
        self.grid = [blocks, 1, 1];
        self
    }

    /// Launches `k` of a module text.
    pub(crate) fn launch(&mut self, text: &str) -> Result<(), Box<Report>> {
        let module = Module::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let params: Vec<Vec<u8>> =
            self.buffers.iter().map(|&b| self.memory.address(b).to_le_bytes().to_vec()).collect();
        let launch =
            Launch { grid: self.grid, block: self.block, shared_bytes: self.shared_bytes, params: &params };
        let options = Options { budget: self.budget, ..Options::default() };
        Machine::new(&module).launch("k", launch, &mut self.memory, &options).map(|_| ())
    }

    /// The words of the n-th buffer, which must be initialised.
    pub(crate) fn read(&self, n: usize) -> Vec<u32> {
        let bytes = self.memory.read_all(self.buffers[n]).expect("initialised");
        bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
    }
}

/// A module with one entry `k` of `params` pointers, which are in `%d0` and so on; `%r0` is the thread's number
/// in its block, `%r1` the block's, `%d30` four times the thread's number, and `%d31` four times the number in
/// the grid.
pub(crate) fn kernel(params: usize, declarations: &str, body: &str) -> String {
    let list: Vec<String> = (0..params).map(|n| format!(".param .u64 p{n}")).collect();
    let mut text = format!("{HEAD}.visible .entry k({})\n{{\n", list.join(", "));
    text += ".reg .pred %p<16>;\n.reg .b16 %h<16>;\n.reg .b32 %r<64>;\n.reg .b64 %d<64>;\n";
    text += declarations;
    for n in 0..params {
        text += &format!("ld.param.u64 %d{n}, [p{n}];\n");
    }
    text += "mov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\n";
    text += "mad.lo.s32 %r3, %r1, %r2, %r0;\nmul.wide.u32 %d30, %r0, 4;\nmul.wide.u32 %d31, %r3, 4;\n";
    text + body + "\nret;\n}\n"
}

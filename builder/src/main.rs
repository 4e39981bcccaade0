//! The command line of the builder: `cargo ptx`, `cargo ptx-check`, `cargo ptx-setup`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};
use cotangent_builder::pipeline::{self, Comparison};
use cotangent_builder::resources::{self, ResourceError, Row};
use cotangent_builder::toolchain::{self, Choice, NoToolchain, Toolchain};
use cotangent_builder::{Workspace, generate, manifest::Manifest, setup};

/// Compiles Cotangent's device crate to PTX.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    /// The repository's root; by default the one around the current folder.
    #[arg(long, global = true)]
    root: Option<PathBuf>,
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Compile the device crate and write host/kernels/.
    Build,
    /// Compile the device crate and compare with host/kernels/.
    Check {
        /// Compare the resources that this ptxas finds as well; it must have the table's version.
        /// The variable `COTANGENT_PTXAS` stands in for it.
        #[arg(long)]
        ptxas: Option<PathBuf>,
    },
    /// Install a compiler that can build for nvptx64, if there is none.
    Setup,
    /// Assemble every module and write host/kernels/resources.tsv.
    Resources {
        /// The ptxas to assemble with; the variable `COTANGENT_PTXAS` stands in for it.
        #[arg(long)]
        ptxas: Option<PathBuf>,
        /// Assemble for these architectures alone, and compare instead of writing.
        #[arg(long)]
        arch: Vec<String>,
        /// Compare with the table instead of writing it.
        #[arg(long)]
        check: bool,
    },
}

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<ExitCode, Failure> {
    let workspace = match &cli.root {
        Some(root) => Workspace::at(root)?,
        None => Workspace::find()?,
    };
    match &cli.command {
        Action::Build => build(&workspace),
        Action::Check { ptxas } => check(&workspace, ptxas_path(ptxas.clone()).as_deref()),
        Action::Setup => set_up(&workspace),
        Action::Resources { ptxas, arch, check } => {
            let ptxas = ptxas_path(ptxas.clone()).ok_or("give --ptxas PATH, or set COTANGENT_PTXAS")?;
            table(&workspace, &ptxas, arch, *check || !arch.is_empty())
        }
    }
}

fn ptxas_path(given: Option<PathBuf>) -> Option<PathBuf> {
    given.or_else(|| std::env::var_os("COTANGENT_PTXAS").map(PathBuf::from))
}

fn choose(workspace: &Workspace, preferred: Option<&str>) -> Result<Toolchain, NoToolchain> {
    let Choice { toolchain, rejected } = toolchain::find(workspace, preferred)?;
    for candidate in rejected {
        eprintln!("not used: {}: {}", candidate.origin, candidate.reason);
    }
    eprintln!("compiler: {} ({})", toolchain.origin, toolchain.identity());
    Ok(toolchain)
}

fn build(workspace: &Workspace) -> Result<ExitCode, Failure> {
    let start = Instant::now();
    let toolchain = choose(workspace, None)?;
    let output = pipeline::build(workspace, &toolchain)?;
    let changed = pipeline::write(workspace, &output)?;
    let modules: usize = output.manifest.kernels.iter().map(|k| k.modules.len()).sum();
    let bytes: usize =
        output.files.iter().filter(|(n, _)| generate::is_module(n)).map(|(_, t)| t.len()).sum();
    eprintln!(
        "{} kernels, {modules} modules, {} KB of PTX, {} files changed, {:.1} s",
        output.kernels.len(),
        bytes / 1000,
        changed.len(),
        start.elapsed().as_secs_f64()
    );
    Ok(ExitCode::SUCCESS)
}

fn check(workspace: &Workspace, ptxas: Option<&Path>) -> Result<ExitCode, Failure> {
    let start = Instant::now();
    let committed = Manifest::read(&workspace.kernels())?;
    let toolchain = choose(workspace, Some(&committed.compiler))?;
    let fresh = pipeline::build(workspace, &toolchain)?;
    let (comparison, mut differences) = pipeline::compare(workspace, &fresh)?;
    if let Some(ptxas) = ptxas {
        expect_version(ptxas)?;
        let rows = resources::measure(ptxas, &fresh.manifest, &[], |name| {
            fresh.files.get(name).cloned().ok_or_else(|| std::io::ErrorKind::NotFound.into())
        })?;
        let committed = committed_rows(workspace)?;
        differences.extend(resources::compare(&committed, &rows, comparison == Comparison::Bytes));
    }
    let how = match comparison {
        Comparison::Bytes => "byte for byte".to_owned(),
        Comparison::Contract => format!(
            "by sources, entries, parameters and holes, since the manifest's compiler is {}",
            committed.compiler
        ),
    };
    for difference in &differences {
        eprintln!("differs: {difference}");
    }
    let seconds = start.elapsed().as_secs_f64();
    if differences.is_empty() {
        eprintln!("host/kernels is what the device crate compiles to, compared {how}, {seconds:.1} s");
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("{} differences, compared {how}; run `cargo ptx` and commit host/kernels", differences.len());
    Ok(ExitCode::FAILURE)
}

/// Writes the resource table, or compares with it.
fn table(workspace: &Workspace, ptxas: &Path, only: &[String], check: bool) -> Result<ExitCode, Failure> {
    let start = Instant::now();
    let dir = workspace.kernels();
    let version = resources::ptxas_version(ptxas)?;
    if !check {
        expect_version(ptxas)?;
    }
    let manifest = Manifest::read(&dir)?;
    let rows = resources::measure(ptxas, &manifest, only, |name| fs::read_to_string(dir.join(name)))?;
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("ptxas {version}: {} modules assembled without spills, {seconds:.1} s", rows.len());
    if !check {
        fs::write(dir.join(resources::FILE), resources::to_table(&rows))?;
        return Ok(ExitCode::SUCCESS);
    }
    if version != resources::PTXAS_VERSION {
        eprintln!("not compared: the table is for ptxas {}", resources::PTXAS_VERSION);
        return Ok(ExitCode::SUCCESS);
    }
    let differences = resources::compare(&committed_rows(workspace)?, &rows, true);
    for difference in &differences {
        eprintln!("differs: {difference}");
    }
    Ok(if differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn expect_version(ptxas: &Path) -> Result<(), ResourceError> {
    let version = resources::ptxas_version(ptxas)?;
    if version == resources::PTXAS_VERSION { Ok(()) } else { Err(ResourceError::Version(version)) }
}

fn committed_rows(workspace: &Workspace) -> Result<Vec<Row>, ResourceError> {
    let path = workspace.kernels().join(resources::FILE);
    let text = fs::read_to_string(&path).map_err(|error| ResourceError::File { path, error })?;
    resources::from_table(&text)
}

fn set_up(workspace: &Workspace) -> Result<ExitCode, Failure> {
    match choose(workspace, None) {
        Ok(_) => {
            eprintln!("nothing to install");
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => eprintln!("{error}"),
    }
    setup::install(|message| eprintln!("{message}"))?;
    choose(workspace, None)?;
    Ok(ExitCode::SUCCESS)
}

use cotangent::verify::*;
use cotangent_tests::executor::PtxMachine;
#[test]
fn all() {
    let kernel = std::env::var("K").ok();
    let machine = PtxMachine::new();
    for k in kernels() {
        if kernel.as_deref().is_some_and(|n| n != k) { continue; }
        let start = std::time::Instant::now();
        let scope = Scope::new(Some(k), None).unwrap();
        let rows = verify(&machine, &scope, |_, _| {});
        for row in rows {
            println!("{} {} {} {:e} {:e} {}", row.kernel, row.dtype, row.cases, row.worst.error, row.worst.bound, row.findings.len());
            for f in row.findings.iter().take(2) { println!("   {f}"); }
        }
        println!("{k} {:?}", start.elapsed());
    }
}

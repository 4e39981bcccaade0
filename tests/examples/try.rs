use cotangent_tests::ptx::*;
fn main(){
  let text=std::fs::read_to_string("/tmp/sample.ptx").unwrap();
  let mut spec=text.clone();
  for (k,v) in [("__spec_kh","3"),("__spec_kw","3"),("__spec_stride_h","2"),("__spec_stride_w","1"),("__spec_pad_h","1"),("__spec_pad_w","1"),("__spec_g","1"),("__spec_block_size","64"),("__spec_block_ow","64")] { spec=spec.replace(&format!("{k};"),&format!("{v};")); }
  let mut i=0; while let Some(p)=spec[i..].find("__spec_"){ let p=i+p; let e=spec[p..].find(';').unwrap()+p; spec.replace_range(p..e,"64"); i=p; }
  let t=std::time::Instant::now();
  match Module::parse(&spec){ Ok(m)=>{println!("{} entries {:?}",m.entries().len(),t.elapsed()); println!("{:?}",m.entries()[0]);}, Err(e)=>println!("{e}") }
}

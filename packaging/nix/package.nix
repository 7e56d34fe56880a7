# jitlat from its sources, for nixpkgs with Rust 1.95 or newer: `nix run github:jitlat/jitlat`, or
# `pkgs.callPackage ./packaging/nix/package.nix { }`.
{
  lib,
  stdenv,
  rustPlatform,
  installShellFiles,
}:
let
  workspace = (lib.importTOML ../../Cargo.toml).workspace.package;
in
rustPlatform.buildRustPackage {
  pname = "jitlat";
  version = workspace.version;
  src = lib.cleanSource ../..;
  cargoLock.lockFile = ../../Cargo.lock;
  cargoBuildFlags = [
    "--package"
    "jitlat"
  ];
  buildType = "dist";
  # Tests need network namespaces, which the sandbox of the build does not permit.
  doCheck = false;
  nativeBuildInputs = [ installShellFiles ];
  postInstall = lib.optionalString (stdenv.buildPlatform.canExecute stdenv.hostPlatform) ''
    $out/bin/jitlat man man
    installManPage man/*
    installShellCompletion --cmd jitlat \
      --bash <($out/bin/jitlat completions bash) \
      --zsh <($out/bin/jitlat completions zsh) \
      --fish <($out/bin/jitlat completions fish)
  '';
  meta = {
    description = "Measures how a network path treats real-time traffic";
    homepage = workspace.repository;
    license = lib.licenses.asl20;
    mainProgram = "jitlat";
    platforms = lib.platforms.linux;
  };
}

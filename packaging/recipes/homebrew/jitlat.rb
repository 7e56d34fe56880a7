# Homebrew on Linux: the static program of the release. (No program for macOS is published.)
class Jitlat < Formula
  desc "Measures how a network path treats real-time traffic"
  homepage "https://github.com/jitlat/jitlat"
  version "@VERSION@"
  license "Apache-2.0"
  depends_on :linux

  on_intel do
    url "@URL x86_64-linux-musl@"
    sha256 "@SHA256 x86_64-linux-musl@"
  end
  on_arm do
    url "@URL aarch64-linux-musl@"
    sha256 "@SHA256 aarch64-linux-musl@"
  end

  def install
    bin.install "jitlat"
    man1.install Dir["man/*"]
    bash_completion.install "completions/jitlat"
    zsh_completion.install "completions/_jitlat"
    fish_completion.install "completions/jitlat.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/jitlat --version")
    system bin/"jitlat", "demo", "-n", "50", "-p", "2ms"
  end
end

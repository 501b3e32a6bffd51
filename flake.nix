# `nix build` makes the broker from this clone, `nix run . -- --help` starts it, and the module runs it as a service.
{
  description = "An MQTT broker for the Internet of Things, in one binary";

  inputs.nixpkgs.url = "nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      manifest = builtins.fromTOML (builtins.readFile ./Cargo.toml);
    in
    {
      packages = nixpkgs.lib.genAttrs systems (system: {
        default = nixpkgs.legacyPackages.${system}.rustPlatform.buildRustPackage {
          pname = "tidegate";
          version = manifest.workspace.package.version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          cargoBuildFlags = [ "-p" "tidegate" ];
          # The tests start other brokers and open sockets, which a sandbox does not allow: ./test runs them.
          doCheck = false;
          meta.mainProgram = "tidegate";
        };
      });

      nixosModules.default = { config, lib, pkgs, ... }:
        let
          service = config.services.tidegate;
        in
        {
          options.services.tidegate = {
            enable = lib.mkEnableOption "Tidegate";
            configFile = lib.mkOption {
              type = lib.types.path;
              default = ./deploy/debian/tidegate.toml;
              description = "The configuration; that of the Debian package listens on loopback and keeps its data.";
            };
          };
          config = lib.mkIf service.enable {
            systemd.services.tidegate = {
              description = "Tidegate";
              wantedBy = [ "multi-user.target" ];
              wants = [ "network-online.target" ];
              after = [ "network-online.target" ];
              serviceConfig = {
                Type = "notify";
                ExecStart = "${self.packages.${pkgs.system}.default}/bin/tidegate --config ${service.configFile}";
                DynamicUser = true;
                StateDirectory = "tidegate";
                # Relative paths of the configuration, such as paths of sockets, are below it.
                WorkingDirectory = "%S/tidegate";
                # The broker is ready when it has read its store, which may be large.
                TimeoutStartSec = "infinity";
                ExecReload = "${pkgs.coreutils}/bin/kill -HUP $MAINPID";
                AmbientCapabilities = "CAP_NET_BIND_SERVICE";
                UMask = "0027";
                Restart = "on-failure";
                LimitNOFILE = 1048576;
              };
            };
          };
        };
    };
}

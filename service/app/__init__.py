from service.app.application import create_app

__all__ = ["create_app"]
